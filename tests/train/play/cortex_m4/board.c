/*
 * Runs a policy on a Cortex-M4 without an operating system: prints the outputs for all rows of given.h, as the bits of
 * floats in hexadecimal, and last how many ticks of the clock all steps took.
 */
#include "given.h" /* POLICY_STEP(state, row), ROWS, rows, and the policy's header */

#define SYSTICK ((volatile uint32_t *)0xE000E010u)
#define CPACR (*(volatile uint32_t *)0xE000ED88u)
#define WRITE0 0x04
#define EXIT 0x18
#define APPLICATION_EXIT 0x20026u

void start(void);

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[2] = {0x20400000u, (uintptr_t)&start};

/* A call of the host, which QEMU answers ("semihosting"). */
static void host(uint32_t operation, uintptr_t argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(uint32_t number)
{
    char text[10];
    for (int i = 0; i < 8; i++)
        text[i] = "0123456789abcdef"[(number >> (28 - 4 * i)) & 15u];
    text[8] = '\n';
    text[9] = '\0';
    host(WRITE0, (uintptr_t)text);
}

static policy_state state;

void start(void)
{
    CPACR |= 0xFu << 20; /* the floating-point unit is off at first */
    __asm__ volatile("dsb\n isb");
    SYSTICK[1] = 0xFFFFFFu;
    SYSTICK[2] = 0;
    SYSTICK[0] = 5; /* counts down with the processor's clock */
    policy_reset(&state);
    uint32_t ticks = 0;
    for (int row = 0; row < ROWS; row++) {
        const uint32_t before = SYSTICK[2];
        const float *outputs = POLICY_STEP(&state, row);
        ticks += (before - SYSTICK[2]) & 0xFFFFFFu;
        for (int i = 0; i < POLICY_OUTPUT_SIZE; i++) {
            union {
                float number;
                uint32_t bits;
            } one = {outputs[i]};
            print(one.bits);
        }
    }
    print(ticks);
    host(EXIT, APPLICATION_EXIT);
    for (;;)
        ;
}

/* CartPole-v1 as one would write it in C for speed alone: the limit that a pool is measured against.
 *
 * The same dynamics as the pool's (Gymnasium's, Euler's method in float64, sine and cosine from libm), the same
 * results written (observation, reward, both ends, elapsed steps), the same 500 steps an episode, next-step
 * autoreset, and the same precomputed actions. No pool around it: no environment can be picked, seeded or saved, and
 * threads never wait for each other.
 */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { LIMIT = 500, CALLS_PER_LOOK = 16 };

typedef struct {
    double x, x_dot, theta, theta_dot;
    int32_t elapsed;
    bool over;
    uint64_t random;
} Env;

typedef struct {
    float (*obs)[4];
    float *reward;
    bool *terminated, *truncated;
    int32_t *elapsed;
} Batch;

typedef struct {
    int first, count, num_envs, num_actions;
    const int64_t *actions; /* [num_actions, num_envs] */
    Env *envs;
    Batch batch;
    double seconds;
    int64_t steps;
} Share;

/* splitmix64 (Steele, Lea, Flood 2014), as a number in [-0.05, 0.05) */
static double start(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return ((z ^ (z >> 31)) >> 11) * 0x1p-53 * 0.1 - 0.05;
}

static void reset(Env *env) {
    env->x = start(&env->random);
    env->x_dot = start(&env->random);
    env->theta = start(&env->random);
    env->theta_dot = start(&env->random);
    env->elapsed = 0;
    env->over = false;
}

static bool step(Env *env, int64_t action) {
    const double total_mass = 1.1, pole_mass_length = 0.05, tau = 0.02;
    double force = action == 1 ? 10.0 : -10.0;
    double sin_theta = sin(env->theta), cos_theta = cos(env->theta);
    double temp = (force + pole_mass_length * (env->theta_dot * env->theta_dot) * sin_theta) / total_mass;
    double theta_acc =
        (9.8 * sin_theta - cos_theta * temp) / (0.5 * (4.0 / 3.0 - 0.1 * (cos_theta * cos_theta) / total_mass));
    double x_acc = temp - pole_mass_length * theta_acc * cos_theta / total_mass;
    env->x += tau * env->x_dot;
    env->x_dot += tau * x_acc;
    env->theta += tau * env->theta_dot;
    env->theta_dot += tau * theta_acc;
    env->elapsed += 1;
    return fabs(env->x) > 2.4 || fabs(env->theta) > 12 * 2 * 3.14159265358979323846 / 360;
}

static void advance(Env *env, int64_t action, const Batch *batch, int row) {
    bool terminated = false, truncated = false;
    float reward = 0;
    if (env->over) {
        reset(env);
    } else {
        terminated = step(env, action);
        truncated = env->elapsed >= LIMIT;
        env->over = terminated || truncated;
        reward = 1;
    }
    batch->obs[row][0] = (float)env->x;
    batch->obs[row][1] = (float)env->x_dot;
    batch->obs[row][2] = (float)env->theta;
    batch->obs[row][3] = (float)env->theta_dot;
    batch->reward[row] = reward;
    batch->terminated[row] = terminated;
    batch->truncated[row] = truncated;
    batch->elapsed[row] = env->elapsed;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void *run_share(void *argument) {
    Share *share = argument;
    double end = now() + share->seconds;
    int64_t calls = 0;
    do {
        for (int i = 0; i < CALLS_PER_LOOK; i++, calls++) {
            const int64_t *actions = share->actions + (calls % share->num_actions) * share->num_envs;
            for (int row = share->first; row < share->first + share->count; row++)
                advance(&share->envs[row], actions[row], &share->batch, row);
        }
    } while (now() < end);
    share->steps = calls * share->count;
    return NULL;
}

/* Steps a second of num_envs environments, dealt out to so many threads, over some seconds; -1 where memory or threads
 * cannot be had. */
double run(const int64_t *actions, int num_actions, int num_envs, int num_threads, double seconds) {
    Env *envs = calloc(num_envs, sizeof *envs);
    Share *shares = calloc(num_threads, sizeof *shares);
    pthread_t *threads = calloc(num_threads, sizeof *threads);
    Batch batch = {calloc(num_envs, sizeof *batch.obs), calloc(num_envs, sizeof *batch.reward),
                   calloc(num_envs, sizeof *batch.terminated), calloc(num_envs, sizeof *batch.truncated),
                   calloc(num_envs, sizeof *batch.elapsed)};
    bool fine = envs && shares && threads && batch.obs && batch.reward && batch.terminated && batch.truncated &&
                batch.elapsed;
    for (int i = 0; fine && i < num_envs; i++) {
        envs[i].random = i;
        reset(&envs[i]);
    }
    double begun = now(), steps = 0;
    int started = 0;
    for (; fine && started < num_threads; started++) {
        int first = (int)((int64_t)num_envs * started / num_threads);
        int last = (int)((int64_t)num_envs * (started + 1) / num_threads);
        shares[started] = (Share){first, last - first, num_envs, num_actions, actions, envs, batch, seconds, 0};
        if (pthread_create(&threads[started], NULL, run_share, &shares[started]))
            break;
    }
    fine = fine && started == num_threads;
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        steps += shares[i].steps;
    }
    double rate = fine ? steps / (now() - begun) : -1;
    free(envs), free(shares), free(threads);
    free(batch.obs), free(batch.reward), free(batch.terminated), free(batch.truncated), free(batch.elapsed);
    return rate;
}

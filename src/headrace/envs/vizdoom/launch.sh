#!/bin/sh
# Starts ViZDoom's engine so that it ends with the process that plays, however that ends: the kernel sees to it.
# Else it would wait for ever. Its working directory, where it leaves files, is the one named here.
exec setpriv --pdeathsig KILL -- sh -c \
  '[ "$PPID" -eq "$HEADRACE_DOOM_PLAYER" ] && cd "$HEADRACE_DOOM_FOLDER" && exec "$HEADRACE_DOOM_ENGINE" "$@"' \
  sh "$@"

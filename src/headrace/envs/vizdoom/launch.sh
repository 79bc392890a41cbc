#!/bin/sh
# Starts ViZDoom's engine so that the kernel kills it when the process that plays ends, for whatever reason. Otherwise
# the engine would wait forever. Its working directory, where it writes files, is HEADRACE_DOOM_FOLDER.
exec setpriv --pdeathsig KILL -- sh -c \
  '[ "$PPID" -eq "$HEADRACE_DOOM_PLAYER" ] && cd "$HEADRACE_DOOM_FOLDER" && exec "$HEADRACE_DOOM_ENGINE" "$@"' \
  sh "$@"

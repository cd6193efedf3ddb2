#!/bin/sh
# The commands of a new user: the README's first command, shortened; a simulation; the run's check again; doctor.
#
# From the environment: DIRECTORY is the directory of the clone, DURATION the main phase in seconds, PYTHON the interpreter,
# UMASK the mode mask, LOAD how many processes keep the processors busy once /out/installed is there. Each command leaves
# NAME.stdout, NAME.stderr, NAME.status and NAME.milliseconds in /out.
set -u
umask "$UMASK"
cd "$DIRECTORY" || exit 1
git -c advice.detachedHead=false clone --quiet /machines/harrow.bundle harrow && cd harrow || exit 1

run() {
  name=$1
  shift
  began=$(date +%s%N)
  "$@" >"/out/$name.stdout" 2>"/out/$name.stderr" </dev/null
  echo $? >"/out/$name.status"
  echo $((($(date +%s%N) - began) / 1000000)) >"/out/$name.milliseconds"
}
if [ "$LOAD" -gt 0 ]; then
  run install make .venv/.installed PYTHON="$PYTHON"
  touch /out/installed
fi
run demo make demo DURATION="$DURATION" PYTHON="$PYTHON"
run sim .venv/bin/harrow sim --seeds 1:5
run check .venv/bin/harrow check store/latest
run doctor .venv/bin/harrow doctor
cp store/latest/results.json store/latest/spec.json store/latest/report.html /out/

#!/bin/sh
# A stranger's first minutes on a reduced machine, and what they leave behind. Run there as root; /out takes what happened.
#
# From the environment: LOAD is how many processes keep the processors busy, HOME_IS `writable` or `read-only`,
# LIVES_AS `stranger` (a plain user) or `root`; the rest is for `stranger.sh`.
set -eu

if [ "$LIVES_AS" = stranger ]; then
  id stranger >/dev/null 2>&1 || useradd --create-home --uid 4321 --shell /bin/sh stranger
  home=/home/stranger
  as() { setpriv --reuid stranger --regid stranger --init-groups env HOME="$home" USER=stranger "$@"; }
else
  home=/root
  as() { env HOME="$home" USER=root "$@"; }
fi
mkdir -p "$PLACE"
as true
chown "$LIVES_AS:" "$PLACE"
chmod 777 /out
if [ "$HOME_IS" = read-only ]; then
  mount --bind "$home" "$home"
  mount -o remount,bind,ro "$home"
fi

busy=
while [ "$LOAD" -gt 0 ]; do
  (while :; do :; done) &
  busy="$busy $!"
  LOAD=$((LOAD - 1))
done
mounts() { cut -d ' ' -f 5 /proc/self/mountinfo | sort; }
mounts >/tmp/mounts-before
as sh /machines/stranger.sh
[ -z "$busy" ] || kill $busy

others() { # processes but for those of this script
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    case $pid in 1 | $$) continue ;; esac
    grep -q '^State:.*Z' "$process/status" 2>/dev/null && continue
    [ "$(awk '$1 == "PPid:" {print $2}' "$process/status" 2>/dev/null)" = $$ ] && continue
    command=$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null | cut -c 1-200)
    [ -z "$command" ] || echo "process $pid: $command"
  done
}
for _ in $(seq 30); do # what was told to end may take a moment
  [ -n "$(others)" ] || break
  sleep 1
done
{
  others
  mounts | comm -13 /tmp/mounts-before - | sed 's/^/mount /'
  find /tmp /dev/shm -mindepth 1 -maxdepth 1 ! -name mounts-before ! -name 'hsperfdata_*' | sed 's/^/file /'
} >/out/left-behind

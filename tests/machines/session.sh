#!/bin/sh
# A new user's session on a reduced machine, and what it leaves behind. Run there as root; results go to /out.
#
# From the environment: LOAD is how many processes keep the processors busy once all is installed, HOME_IS `writable` or
# `read-only`, ACCOUNT `newuser` (a plain user) or `root`; the rest is for `new_user.sh`.
set -eu

if [ "$ACCOUNT" = newuser ]; then
  id newuser >/dev/null 2>&1 || useradd --create-home --uid 4321 --shell /bin/sh newuser
  home=/home/newuser
  as() { setpriv --reuid newuser --regid newuser --init-groups env HOME="$home" USER=newuser "$@"; }
else
  home=/root
  as() { env HOME="$home" USER=root "$@"; }
fi
mkdir -p "$DIRECTORY"
as true
chown "$ACCOUNT:" "$DIRECTORY"
chmod 777 /out
if [ "$HOME_IS" = read-only ]; then
  mount --bind "$home" "$home"
  mount -o remount,bind,ro "$home"
fi

busy=
for _ in $(seq "$LOAD"); do
  # a session of its own, for the kernel shares its time fairly between sessions
  setsid sh -c 'until [ -e /out/installed ]; do sleep 1; done; while :; do :; done' &
  busy="$busy $!"
done
mounts() { cut -d ' ' -f 5 /proc/self/mountinfo | sort; }
mounts >/tmp/mounts-before
as setsid --wait sh /machines/new_user.sh
[ -z "$busy" ] || kill $busy

session_of() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 4; }
others() { # processes of the new user's session, and of sessions that were begun in it
  own=$(session_of $$)
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    [ "$pid" != 1 ] && [ "$(session_of "$pid")" != "$own" ] || continue
    grep -q '^State:.*Z' "$process/status" 2>/dev/null && continue
    command=$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null | cut -c 1-200)
    [ -z "$command" ] || echo "process $pid: $command"
  done
}
for second in $(seq 600); do # what was asked to end may take a moment; the archive of Java's classes is made afterwards
  left=$(others)
  [ -n "$left" ] || break
  [ "$second" -le 30 ] || echo "$left" | grep -q checkers.class_archiving || break
  sleep 1
done
{
  others
  mounts | comm -13 /tmp/mounts-before - | sed 's/^/mount /'
  find /tmp /dev/shm -mindepth 1 -maxdepth 1 ! -name mounts-before ! -name 'hsperfdata_*' | sed 's/^/file /'
} >/out/left-behind

#!/bin/sh
# Becomes a reduced machine: a Debian root of its own, with its own processes, mounts and devices.
#
#   unshare --mount --pid --fork --kill-child --propagation private sh enter.sh COMMAND…
#
# COMMAND runs there as root. From the environment: LOWER is the root, which is not changed; SCRATCH a directory that
# takes the changes; SHARED directories that are seen there as well, each FROM=TO; TUN and FUSE are `open` (to everyone),
# `closed` (to all but root) or `absent`; USER_NAMESPACES and IPV6 `yes` or `no`.
set -eu

mkdir -p "$SCRATCH/upper" "$SCRATCH/work" "$SCRATCH/root"
root=$SCRATCH/root
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
device() { # NAME MAJOR MINOR STATE
  case $4 in
    open) mknod -m 666 "$root/dev/$1" c "$2" "$3" ;;
    closed) mknod -m 600 "$root/dev/$1" c "$2" "$3" ;;
    absent) ;;
    *) echo "expected the device $1 to be open, closed or absent, found $4" >&2 && exit 2 ;;
  esac
}
device net/tun 10 200 "$TUN"
device fuse 10 229 "$FUSE"
for pair in $SHARED; do
  mkdir -p "$root${pair#*=}"
  mount --bind "${pair%%=*}" "$root${pair#*=}"
done
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/hosts "$root/etc/hosts"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt" # whom this machine trusts

cd "$root"
mkdir -p .before
pivot_root . .before
umount -l /.before
rmdir /.before

[ "$IPV6" = yes ] || set -- python3 /machines/without_ipv6.py "$@"
if [ "$USER_NAMESPACES" = no ]; then # a limit of a user namespace holds below it, so the machine needs one of its own
  mkfifo /run/mapped
  # Until the ids are mapped no process is root in there; then every new program is.
  unshare --user sh -c 'read -r _ </run/mapped && exec sh -c "$0" sh "$@"' \
    'rm /run/mapped && echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"' "$@" &
  inside=$!
  while [ "$(readlink /proc/$inside/ns/user)" = "$(readlink /proc/self/ns/user)" ]; do
    kill -0 "$inside"
    sleep 0.1
  done
  echo "0 0 65536" >"/proc/$inside/uid_map" # `unshare --map-users` would ask for programs that are not on this machine
  echo "0 0 65536" >"/proc/$inside/gid_map"
  echo mapped >/run/mapped
  wait "$inside"
  exit
fi
exec "$@"

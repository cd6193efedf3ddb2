#!/bin/sh
# The first process of a VM whose kernel lacks something: makes the visits that its second disk has, one after the other.
#
# The second disk is a tar: Harrow's sources in harrow/, these scripts in doctor/, their configurations in config/. What comes of the
# visits is written to the third disk, a tar as well. Then the machine is switched off.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up
tar --extract --file /dev/vdb --directory /
mkdir /out
for config in /config/*.json; do
  name=$(basename "$config")
  echo "visit $name"
  python3 /doctor/visit.py "$config" "/out/$name" 2>"/out/$name.errors" || echo "it failed"
done
tar --create --file /dev/vdc --directory /out .
sync
echo o >/proc/sysrq-trigger
sleep 60

"""Scripts and settings inside a VM: its init process, modules, SSH server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FIRST_MODULES: Final = ("virtio_pci", "virtio_blk", "overlay", "ext4")
"""The modules for the root file system."""

MODULES: Final = (
    *("virtio_net", "virtio_rng", "loop", "fuse", "acpiphp"),
    *("nf_tables", "nft_ct", "nft_counter", "nft_reject_inet", "nft_reject_ipv4", "nft_compat"),
    *("sch_netem", "sch_htb", "sch_ingress", "cls_u32", "act_gact", "act_mirred", "ifb"),
)

APPLETS: Final = (
    *("mount", "umount", "ls", "cat", "cp", "mv", "rm", "mkdir", "rmdir", "chmod", "mktemp", "tar", "gzip", "sed"),
    *("env", "id", "echo", "true", "sleep", "unshare", "modprobe", "hostname", "date", "sync", "ps", "dmesg", "uname"),
    *("test", "head", "tail", "grep", "ln", "seq", "printf", "stty", "setsid", "free", "df"),
)

READY: Final = "HARROW-READY"

_TRIES: Final = 1000
_TRY_S: Final = 0.05

_INIT: Final = f"""#!/usr/bin/dash
# The first process of a VM of Harrow's. It runs one-line commands from the second serial port.
export PATH=/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /run/sshd /run/lock /data
for module in {" ".join(MODULES)}; do modprobe $module 2>/dev/null; done
ip link set lo up
/usr/sbin/sshd
stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
echo {READY} > /dev/ttyS0
while true; do
  if read -r line <&3; then
    {{ eval "$line"; echo "STATUS $?"; }} >&3 2>&1 </dev/null
  else
    sleep 1
  fi
done
"""

_SSHD: Final = """Port 22
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized
StrictModes no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
PidFile none
MaxStartups 100
MaxSessions 100
Ciphers aes128-ctr
MACs hmac-sha2-256
"""
"""The cheapest ciphers for an emulated processor, which has no cipher instructions."""

FILES: Final = {
    "harrow-init": _INIT,
    "etc/ssh/sshd_config": _SSHD,
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
}


def wait_command(look: str, what: str) -> str:
    """A shell command that waits until `look` succeeds; it fails when that takes too long."""
    return (
        f"for try in $(seq {_TRIES}); do {look} && break; sleep {_TRY_S}; done; "
        f"[ $try -lt {_TRIES} ] || {{ echo no sign of {what} within {_TRIES * _TRY_S:g} s; false; }}"
    )


def first_script(modules: Sequence[str]) -> str:
    """The initramfs script: mounts an overlay in memory over the root file system, which stays unchanged."""
    return f"""#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in {" ".join(modules)}; do /bin/busybox insmod /modules/$module; done
/bin/busybox mount -t ext4 -o ro,noload /dev/vda /under
/bin/busybox mount -t tmpfs -o size=75% tmpfs /over
/bin/busybox mkdir /over/upper /over/work
/bin/busybox mount -t overlay -o lowerdir=/under,upperdir=/over/upper,workdir=/over/work overlay /root
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /harrow-init
"""


def recipe() -> str:
    """All inputs of an image as one text, for its digest."""
    return "\n".join([*FILES.values(), *APPLETS, *MODULES, *FIRST_MODULES, first_script(())])

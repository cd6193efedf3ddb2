"""What this machine can and cannot do, found out by trying: `harrow doctor`."""

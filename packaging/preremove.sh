#!/bin/sh
# dpkg says remove, and rpm 0, when the package goes and no other version comes in its place.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  case "${1:-}" in
  remove | 0) systemctl disable --now rowlock.service ;;
  esac
fi

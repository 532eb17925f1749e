#!/bin/sh
# dpkg passes "remove", and rpm 0, when the package is removed and not replaced by another version.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  case "${1:-}" in
  remove | 0) systemctl disable --now rowlock.service ;;
  esac
fi

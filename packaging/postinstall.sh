#!/bin/sh
# The package does not start the unit: the administrator edits /etc/rowlock/config.yaml first.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart rowlock.service
fi

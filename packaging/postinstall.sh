#!/bin/sh
# The unit is not started unasked: whoever installs the package looks at /etc/rowlock/config.yaml first.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart rowlock.service
fi

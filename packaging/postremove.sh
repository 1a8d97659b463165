#!/bin/sh
# After the removal. Only "apt purge" deletes the database, the configuration and the user.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "${1:-}" = purge ]; then
	rm -rf /var/lib/headgate /etc/headgate
	if getent passwd headgate >/dev/null 2>&1; then userdel headgate; fi
	if getent group headgate >/dev/null 2>&1; then groupdel headgate; fi
fi

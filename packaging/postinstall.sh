#!/bin/sh
# After the installation or an upgrade, from dpkg, rpm or apk.
set -e

if ! getent group headgate >/dev/null 2>&1; then
	if command -v groupadd >/dev/null 2>&1; then groupadd --system headgate; else addgroup -S headgate; fi
fi
if ! getent passwd headgate >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --gid headgate --home-dir /var/lib/headgate --no-create-home --shell /usr/sbin/nologin \
			--comment "Headgate rate limiter" headgate
	else
		adduser -S -D -H -h /var/lib/headgate -s /sbin/nologin -G headgate -g "Headgate rate limiter" headgate
	fi
fi
# The service reads its configuration and secrets; other users do not.
chown root:headgate /etc/headgate /etc/headgate/headgate.yaml
chmod 0750 /etc/headgate
chmod 0640 /etc/headgate/headgate.yaml

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart headgate.service # only if it runs: after an upgrade
fi

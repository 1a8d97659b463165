#!/bin/sh
# Before the removal. dpkg passes "upgrade" and rpm 1 if another version follows.
set -e
case "${1:-remove}" in upgrade | failed-upgrade | deconfigure | 1) exit 0 ;; esac
if [ -d /run/systemd/system ]; then systemctl disable --now headgate.service; fi
if command -v rc-service >/dev/null 2>&1; then rc-service --ifstarted headgate stop; fi

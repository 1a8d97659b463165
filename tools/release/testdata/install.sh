#!/usr/bin/env bash
# install.sh OLD.deb NEW.deb: installs, runs, upgrades and removes the package on a copy of this system that is thrown
# away. It runs as root in a mount, network and process namespace of its own; see install_test.go.
set -euo pipefail

old=$1 new=$2
say() { echo "install.sh: $*"; }
fail() { say "FAILED: $*" >&2; exit 1; }

# Stage 1: everything below changes a copy of the system in memory.
if [[ -z ${INSIDE:-} ]]; then
	copy=$(mktemp -d)
	mount -t tmpfs tmpfs "$copy"
	mkdir "$copy"/{upper,work,root}
	mount -t overlay overlay -o "lowerdir=/,upperdir=$copy/upper,workdir=$copy/work" "$copy/root"
	mount --rbind /dev "$copy/root/dev"
	mount -t proc proc "$copy/root/proc"
	cp "$old" "$copy/root/old.deb"
	cp "$new" "$copy/root/new.deb"
	cp "$0" "$copy/root/install.sh"
	ip link set lo up
	INSIDE=1 exec chroot "$copy/root" bash /install.sh /old.deb /new.deb
fi

# Stage 2: in the copy.
unit=/lib/systemd/system/headgate.service
config=/etc/headgate/headgate.yaml

# start_unit starts what the unit starts, as its user, with its state directory, and waits until it is ready.
start_unit() {
	local command user
	command=$(sed -n 's/^ExecStart=//p' "$unit")
	user=$(sed -n 's/^User=//p' "$unit")
	install -d -o "$user" -g "$user" -m 0700 /var/lib/headgate
	STATE_DIRECTORY=/var/lib/headgate setpriv --reuid "$user" --regid "$user" --init-groups --no-new-privs \
		--inh-caps=-all --bounding-set=-all $command >/serve.out 2>/serve.log &
	pid=$!
	curl --silent --show-error --fail --retry 60 --retry-connrefused --retry-delay 1 http://127.0.0.1:8084/readyz >/dev/null ||
		{ cat /serve.log; fail "it is not ready"; }
}

# send_requests sends requests to the gateway until one is denied.
send_requests() {
	local codes=""
	for _ in $(seq 40); do codes+=" $(curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:8080/)"; done
	[[ $codes == *200* && $codes == *429* ]] || fail "got$codes, want 200 and 429"
	say "40 requests:$codes"
}

stop_unit() {
	kill -TERM "$pid"
	wait "$pid" || fail "it ended with $?, want 0 after SIGTERM"
}

say "install $(dpkg-deb --field "$old" Version)"
dpkg --install "$old"
getent passwd headgate >/dev/null || fail "no user headgate"
[[ $(stat -c '%U:%G %a' "$config") == "root:headgate 640" ]] || fail "$(stat -c '%U:%G %a' "$config") $config, want root:headgate 640"
systemd-analyze verify --man=no "$unit" || fail "systemd-analyze verify"
exposure=$(systemd-analyze security --offline=yes "$unit" | sed -n 's/.*level for headgate.service: \([0-9]*\).*/\1/p')
((exposure <= 2)) || fail "systemd-analyze security: exposure $exposure, want at most 2"
man --where headgate-serve >/dev/null || fail "no manual page"
headgate version | grep -q 'headgate v0.1.0 (' || fail "version: $(headgate version)"
start_unit
send_requests
stop_unit
[[ -s /var/lib/headgate/rules.db ]] || fail "no database"
setpriv --reuid headgate --regid headgate --init-groups env STATE_DIRECTORY=/var/lib/headgate headgate doctor --config "$config" >/doctor.out ||
	{ cat /doctor.out; fail "doctor finds problems"; }

say "upgrade to $(dpkg-deb --field "$new" Version)"
echo "# changed by the operator" >>"$config"
dpkg --install "$new"
grep -q "changed by the operator" "$config" || fail "the upgrade replaced the configuration"
headgate version | grep -q 'headgate v0.2.0 (' || fail "version: $(headgate version)"
start_unit
send_requests
stop_unit

say "remove"
dpkg --remove headgate
[[ ! -e /usr/bin/headgate && ! -e $unit ]] || fail "files are left"
[[ -e $config && -s /var/lib/headgate/rules.db ]] || fail "remove deleted the configuration or the database, want purge to do that"
dpkg --purge headgate
for path in /etc/headgate /var/lib/headgate /usr/share/doc/headgate; do
	[[ ! -e $path ]] || fail "purge left $path"
done
! getent passwd headgate >/dev/null || fail "purge left the user"
say "removed cleanly"

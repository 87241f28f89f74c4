#!/usr/bin/env bash
# Run two PostgreSQL nodes with Patroni, etcd and HAProxy on the loopback of this machine until
# Ctrl-C. Needs Debian's postgresql, patroni, etcd-server and haproxy, and root to change accounts.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-15432} proxy_port=${PROXY_PORT:-15000}

for program in etcd patroni haproxy runuser; do
  PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || {
    echo "try.sh: $program is missing: apt-get install postgresql patroni etcd-server haproxy" >&2
    exit 2
  }
done
work=$(mktemp -d /tmp/tenantcron-ha.XXXXXX)
chown postgres "$work"
stop() {
  trap - EXIT INT TERM
  kill $(jobs -p) 2>/dev/null || true
  wait || true
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

as_postgres() { runuser -u postgres -- "$@"; }

as_postgres etcd --data-dir "$work/etcd" --log-level error \
  --listen-client-urls http://127.0.0.1:12379 --advertise-client-urls http://127.0.0.1:12379 \
  --listen-peer-urls http://127.0.0.1:12380 >"$work/etcd.log" 2>&1 &
node=2
for name in one two; do
  sed -e "s|NAME|$name|" -e "s|ADDRESS|127.0.0.$node|g" -e "s|PORT|$port|g" \
    -e "s|DATA|$work/$name|" -e "s|ETCD|127.0.0.1:12379|" "$here/patroni.yml" >"$work/$name.yml"
  as_postgres patroni "$work/$name.yml" >"$work/$name.log" 2>&1 &
  node=$((node + 1))
done
sed -e "s|PROXY_PORT|$proxy_port|" -e "s|PORT|$port|" "$here/haproxy.cfg" >"$work/haproxy.cfg"
PATH="$PATH:/usr/sbin" haproxy -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 &

until psql -qAt "host=127.0.0.1 port=$proxy_port user=postgres dbname=postgres connect_timeout=2" \
  -c 'SELECT 1' >/dev/null 2>&1; do
  sleep 1
done
until as_postgres patronictl -c "$work/one.yml" list 2>/dev/null | grep -q "Sync Standby"; do
  sleep 1
done
as_postgres patronictl -c "$work/one.yml" list
cat <<TEXT
Through HAProxy:  postgresql://postgres@127.0.0.1:$proxy_port/postgres
Without a proxy:  postgresql://postgres@127.0.0.2:$port,127.0.0.3:$port/postgres?target_session_attrs=read-write
Fail over:        runuser -u postgres -- patronictl -c $work/one.yml failover --force
Crash:            pkill -9 -f '$work/one'    or two: whichever is the primary
Logs:             $work/*.log    Ctrl-C stops everything.
TEXT
wait

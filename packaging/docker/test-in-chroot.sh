#!/bin/bash
# Proves the image without Docker: makes a bare Debian root by debootstrap, puts in it what the Dockerfile does, and runs the
# entrypoint there. Run as root, with a built target/release/keel: packaging/docker/test-in-chroot.sh [KEEL]
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
keel=${1:-$here/../../target/release/keel}
root=$(mktemp -d)
chmod 755 "$root"
port=4310
server=
trap 'kill $server 2>/dev/null || true; umount "$root/proc" 2>/dev/null || true; rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=mariadb-client,tzdata,xz-utils,zstd bookworm "$root" >"$root.log"
rm -f "$root.log"
mount -t proc proc "$root/proc"
install -m 755 "$keel" "$root/usr/bin/keel"
install -m 755 "$here/docker-entrypoint.sh" "$here/healthcheck.sh" "$root/usr/local/bin/"
in_root() { chroot "$root" env "$@"; }
in_root groupadd --system --gid 999 keel
in_root useradd --system --uid 999 --gid keel --home-dir /var/lib/keel --shell /usr/sbin/nologin keel
in_root install -d -o keel -g keel -m 0700 /var/lib/keel
in_root install -d -o keel -g keel -m 0755 /run/keel
init=$root/docker-entrypoint-initdb.d
mkdir "$init"

checked=0
check() { # check WHAT EXPECTED COMMAND...
    local what=$1 expected=$2 answer
    shift 2
    answer=$("$@" 2>&1) || true
    case $answer in
        *"$expected"*) checked=$((checked + 1)) ;;
        *) echo "FAILED: $what: expected '$expected', got: $answer"; exit 1 ;;
    esac
}
client() { in_root mariadb --default-character-set=utf8mb4 -h127.0.0.1 -P$port "$@"; }
run() { # run SETTING... : starts the container's command
    (exec chroot "$root" env "$@" docker-entrypoint.sh serve --port=$port) >"$root/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        if in_root healthcheck.sh >/dev/null 2>&1 && grep -q "listening on 0.0.0.0" "$root/log"; then return; fi
        kill -0 $server 2>/dev/null || { cat "$root/log"; exit 1; }
        sleep 0.2
    done
    cat "$root/log"
    exit 1
}
stop() { kill -TERM $server; wait $server || true; check "stop" "stopped" tail -n 1 "$root/log"; }
empty() { rm -rf "$root/var/lib/keel"; in_root install -d -o keel -g keel -m 0700 /var/lib/keel; }

check "an empty folder needs a choice" "set MARIADB_ROOT_PASSWORD" in_root docker-entrypoint.sh
printf 'create table t (a varchar(20)); insert into t values ("\xf0\x9f\x98\x80");' >"$init/1.sql"
printf 'insert into t values ("gz");' | gzip >"$init/2.sql.gz"
printf 'insert into t values ("xz");' | xz >"$init/3.sql.xz"
printf 'insert into t values ("zst");' | zstd -q >"$init/4.sql.zst"
printf 'echo ran >/var/lib/keel-ran\n' >"$init/5.sh"
install -m 666 /dev/null "$root/var/lib/keel-ran"
printf 's3cr'"'"'et"\\' >"$root/run/password"
run MARIADB_ROOT_PASSWORD_FILE=/run/password MARIADB_DATABASE=my_db MARIADB_USER=app MARIADB_PASSWORD="p'w"
check "the user sees its rows" 4 client -uapp "-pp'w" my_db -Nse "select count(*) from t where a in ('gz','xz','zst','😀')"
check "the user sees its database alone" "Access denied" client -uapp "-pp'w" -e "create database other"
check "root has the password" "root@127.0.0.1" client -uroot "-p$(cat "$root/run/password")" -Nse "select current_user()"
check "root needs it" "Access denied" client -uroot -e "select 1"
check "scripts of the shell ran" ran cat "$root/var/lib/keel-ran"
check "the server is not root" keel in_root stat -c %U /var/lib/keel/FORMAT
stop
check "health of a stopped server" "onnect" in_root healthcheck.sh
run MARIADB_ROOT_PASSWORD=ignored
check "a second start keeps the folder" 4 client -uapp "-pp'w" my_db -Nse "select count(*) from t"
stop
rm "$init"/*
empty
run MYSQL_RANDOM_ROOT_PASSWORD=1
password=$(sed -n 's/.*GENERATED ROOT PASSWORD: //p' "$root/log")
check "the generated password works" 42 client -uroot "-p$password" -Nse "select 42"
stop
empty
run MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=yes MARIADB_ROOT_HOST=localhost
check "an empty password works" 42 client -uroot -Nse "select 42"
stop
empty
printf 'no statement;' >"$init/1.sql"
check "a bad script ends the start" "ERROR 1064" in_root MARIADB_ROOT_PASSWORD=x docker-entrypoint.sh
check "and the folder is not used" "was interrupted" in_root MARIADB_ROOT_PASSWORD=x docker-entrypoint.sh
echo "$checked checks passed"

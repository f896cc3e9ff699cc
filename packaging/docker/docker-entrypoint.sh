#!/bin/bash
# Prepares an empty data folder as the image of MariaDB does, then runs the server.
#
# MARIADB_ROOT_PASSWORD, MARIADB_ALLOW_EMPTY_ROOT_PASSWORD or MARIADB_RANDOM_ROOT_PASSWORD is required for an empty folder.
# MARIADB_ROOT_HOST (default %), MARIADB_DATABASE, MARIADB_USER and MARIADB_PASSWORD are optional. Each is also read as
# MYSQL_*, and each may be given as NAME_FILE, the path of a file that holds the value. Files in
# /docker-entrypoint-initdb.d run in the order of their names: *.sh, *.sql, *.sql.gz, *.sql.xz, *.sql.zst.
set -euo pipefail

DATA=${KEEL_DATA:-/var/lib/keel}
SOCKET=${KEEL_SOCKET:-/run/keel/keel.sock}
# Exists while the data folder is being prepared.
INCOMPLETE=$DATA/entrypoint-incomplete

note() { echo "$(date --rfc-3339=seconds) [entrypoint]: $*"; }
fail() { note "$*" >&2; exit 1; }

# setting NAME: the value of MARIADB_NAME, MARIADB_NAME_FILE, MYSQL_NAME or MYSQL_NAME_FILE.
setting() {
    local prefix name file
    for prefix in MARIADB MYSQL; do
        name=${prefix}_$1 file=${prefix}_$1_FILE
        if [ -n "${!name:-}" ] && [ -n "${!file:-}" ]; then
            fail "both $name and $file are set; they exclude each other"
        fi
        if [ -n "${!name:-}" ]; then printf '%s' "${!name}"; return; fi
        if [ -n "${!file:-}" ]; then cat "${!file}"; return; fi
    done
}

text() { local q=${1//\\/\\\\}; printf "'%s'" "${q//\'/\\\'}"; }
name() { printf '`%s`' "${1//\`/\`\`}"; }

client() { mariadb --defaults-extra-file="$ROOT_FILE" --default-character-set=utf8mb4 --protocol=socket --socket="$SOCKET" --user=root "$@"; }

start_private() {
    keel serve --datadir="$DATA" --socket="$SOCKET" --skip-networking "$@" &
    SERVER=$!
    local try
    for try in $(seq 600); do
        if client -e 'SELECT 1' >/dev/null 2>&1; then return; fi
        kill -0 "$SERVER" 2>/dev/null || fail "the server ended while the data folder was being prepared"
        sleep 0.1
    done
    fail "the server did not answer within a minute"
}

run_file() {
    note "running $1"
    case $1 in
        *.sh) if [ -x "$1" ]; then "$1"; else . "$1"; fi ;;
        *.sql) client ${DATABASE:+--database="$DATABASE"} <"$1" ;;
        *.sql.gz) gzip -dc "$1" | client ${DATABASE:+--database="$DATABASE"} ;;
        *.sql.xz) xz -dc "$1" | client ${DATABASE:+--database="$DATABASE"} ;;
        *.sql.zst) zstd -dc "$1" | client ${DATABASE:+--database="$DATABASE"} ;;
        *) note "ignoring $1" ;;
    esac
}

# An account without privileges for healthcheck.sh. Its password is in the data folder.
health_account() {
    local password
    password=$(head -c 18 /dev/urandom | base64)
    (umask 077; printf '[client]\nuser=healthcheck\npassword="%s"\n' "$password" >"$DATA/.healthcheck.cnf")
    echo "CREATE USER healthcheck@localhost IDENTIFIED BY $(text "$password");"
}

accounts() {
    local root_host=$1 user=$2 password=$3
    health_account
    if [ -n "$root_host" ] && [ "$root_host" != localhost ]; then
        echo "CREATE USER 'root'@$(text "$root_host") IDENTIFIED BY $(text "$ROOT_PASSWORD");"
        echo "GRANT ALL ON *.* TO 'root'@$(text "$root_host") WITH GRANT OPTION;"
    fi
    if [ -n "$DATABASE" ]; then echo "CREATE DATABASE IF NOT EXISTS $(name "$DATABASE");"; fi
    if [ -n "$user" ]; then
        echo "CREATE USER $(text "$user")@'%' IDENTIFIED BY $(text "$password");"
        if [ -n "$DATABASE" ]; then
            # An underscore in the name of a database is a wildcard of GRANT.
            echo "GRANT ALL ON $(name "${DATABASE//_/\\_}").* TO $(text "$user")@'%';"
        fi
    fi
}

prepare() {
    local allow_empty random root_host user password
    ROOT_PASSWORD=$(setting ROOT_PASSWORD)
    allow_empty=$(setting ALLOW_EMPTY_ROOT_PASSWORD)
    random=$(setting RANDOM_ROOT_PASSWORD)
    DATABASE=$(setting DATABASE)
    user=$(setting USER)
    password=$(setting PASSWORD)
    root_host=$(setting ROOT_HOST)
    if [ -z "$ROOT_PASSWORD$allow_empty$random" ]; then
        fail "the data folder is empty: set MARIADB_ROOT_PASSWORD, MARIADB_ALLOW_EMPTY_ROOT_PASSWORD or MARIADB_RANDOM_ROOT_PASSWORD"
    fi
    if [ -n "$user" ] && [ -z "$password" ]; then fail "MARIADB_USER needs MARIADB_PASSWORD"; fi
    if [ "$user" = root ]; then fail "MARIADB_USER must not be root; its password is MARIADB_ROOT_PASSWORD"; fi
    if [ -n "$random" ]; then
        ROOT_PASSWORD=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
        note "GENERATED ROOT PASSWORD: $ROOT_PASSWORD"
    fi
    ROOT_FILE=$(mktemp)
    SERVER=
    touch "$INCOMPLETE"
    trap 'rm -f "$ROOT_FILE" "$ROOT_FILE.password"; if [ -n "$SERVER" ]; then kill -TERM "$SERVER" 2>/dev/null || true; fi' EXIT
    local quoted_password=${ROOT_PASSWORD//\\/\\\\}
    printf '[client]\npassword="%s"\n' "${quoted_password//\"/\\\"}" >"$ROOT_FILE"
    if [ -n "$ROOT_PASSWORD" ]; then
        (umask 077; printf '%s' "$ROOT_PASSWORD" >"$ROOT_FILE.password")
        start_private --initial-password-file="$ROOT_FILE.password"
    else
        start_private --initialize-insecure
    fi
    accounts "${root_host:-%}" "$user" "$password" | client
    export DATABASE
    local file
    for file in /docker-entrypoint-initdb.d/*; do
        if [ -e "$file" ]; then run_file "$file"; fi
    done
    kill -TERM "$SERVER"
    wait "$SERVER" || fail "the server did not stop cleanly after the data folder was prepared"
    rm -f "$ROOT_FILE" "$ROOT_FILE.password" "$INCOMPLETE"
    trap - EXIT
    note "the data folder is ready"
}

# `docker run keel --port=3307` means options of the server.
case ${1:-} in
    --version|--help) ;;
    ''|-*) set -- serve "$@" ;;
esac
case $1 in
    serve|init) ;;
    check|salvage|lab|--version|--help) exec keel "$@" ;;
    *) exec "$@" ;;
esac

# Give up root: the server runs as keel.
if [ "$(id -u)" = 0 ]; then
    [ -d "$DATA" ] || install -d -m 0700 "$DATA"
    mkdir -p "$(dirname "$SOCKET")"
    chown keel:keel "$DATA" "$(dirname "$SOCKET")"
    exec setpriv --reuid=keel --regid=keel --init-groups "$0" "$@"
fi

if [ "$1" = init ]; then exec keel "$@"; fi
if [ -e "$INCOMPLETE" ]; then
    fail "preparing $DATA was interrupted: empty it, or remove $INCOMPLETE to use it as it is"
fi
if [ ! -e "$DATA/FORMAT" ]; then prepare; fi
shift
exec keel serve --datadir="$DATA" --socket="$SOCKET" '--bind-address=*' "$@"

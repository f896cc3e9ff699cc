#!/bin/sh
# Succeeds when the server answers the account that the entrypoint has made. A refused password is an answer too: a folder
# that another image made has no such account.
file=${KEEL_DATA:-/var/lib/keel}/.healthcheck.cnf
[ -r "$file" ] || file=/dev/null
answer=$(mariadb-admin --defaults-file="$file" --protocol=socket --socket="${KEEL_SOCKET:-/run/keel/keel.sock}" \
    --connect-timeout=3 ping 2>&1) && exit 0
case $answer in
    *"Access denied"*) exit 0 ;;
esac
echo "$answer"
exit 1

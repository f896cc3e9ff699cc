#!/usr/bin/env sysbench
-- `oltp_new`, the hybrid: a transaction of one row by its key, one update of an indexed column, and a row deleted and inserted again.
require("lab_table")

function event()
   local name = random_table()
   exec("BEGIN")
   exec("SELECT c FROM %s WHERE id=%d", name, random_id())
   exec("UPDATE %s SET k=k+1 WHERE id=%d", name, random_id())
   local id = random_id()
   exec("DELETE FROM %s WHERE id=%d", name, id)
   exec("INSERT INTO %s (id, k, c, pad) VALUES (%d, %d, '%s', '%s')", name, id, random_id(), random_c(), random_pad())
   exec("COMMIT")
end

function sysbench.hooks.before_restart_event()
   con:query("ROLLBACK")
end

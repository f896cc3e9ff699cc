#!/usr/bin/env sysbench
-- `our_oltp`: four rows by their keys and one update of an indexed column; five queries, four to one. Without a transaction around
-- them unless --transaction says so.
require("lab_table")

sysbench.cmdline.options.transaction = {"Put the five into a transaction", false}

function event()
   local name = random_table()
   if sysbench.opt.transaction then
      exec("BEGIN")
   end
   for _ = 1, 4 do
      exec("SELECT c FROM %s WHERE id=%d", name, random_id())
   end
   exec("UPDATE %s SET k=k+1 WHERE id=%d", name, random_id())
   if sysbench.opt.transaction then
      exec("COMMIT")
   end
end

function sysbench.hooks.before_restart_event()
   con:query("ROLLBACK")
end

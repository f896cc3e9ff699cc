#!/usr/bin/env sysbench
-- `select` of sysbench 0.5: one row by its key.
require("lab_table")

function event()
   exec("SELECT pad FROM %s WHERE id=%d", random_table(), random_id())
end

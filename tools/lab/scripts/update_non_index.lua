#!/usr/bin/env sysbench
-- `update_non_index` of sysbench 0.5: one row by its key, a column that no index holds.
require("lab_table")

function event()
   exec("UPDATE %s SET c='%s' WHERE id=%d", random_table(), random_c(), random_id())
end

-- Ten rows by one statement, chosen evenly: random reads that wait less for the client's turn than single ones do.

local ROWS = 10

sysbench.cmdline.options = {
   tables = {"Tables", 1},
   table_size = {"Rows of each", 10000}
}

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function thread_done()
   connection:disconnect()
end

function event()
   local ids = {}
   for i = 1, ROWS do
      ids[i] = sysbench.rand.uniform(1, sysbench.opt.table_size)
   end
   local table_number = sysbench.rand.uniform(1, sysbench.opt.tables)
   connection:query(string.format("SELECT c FROM sbtest%d WHERE id IN (%s)", table_number, table.concat(ids, ",")))
end

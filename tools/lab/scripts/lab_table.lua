-- What the lab's scripts in the shape of sysbench 0.5 have in common: its table, its options under their present names,
-- statements sent as text.

if sysbench.cmdline.command == nil then
   error("Command is required: prepare, run or cleanup")
end

sysbench.cmdline.options = {
   tables = {"Number of tables", 1},
   table_size = {"Rows of each table", 10000},
}

local ROWS_PER_INSERT = 1000

-- Ten groups of eleven digits, and five of them.
local GROUP = string.rep("#", 11)
local C = string.rep(GROUP .. "-", 9) .. GROUP
local PAD = string.rep(GROUP .. "-", 4) .. GROUP

function random_c()
   return sysbench.rand.string(C)
end

function random_pad()
   return sysbench.rand.string(PAD)
end

-- A table, all alike.
function random_table()
   return "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
end

-- A row by the distribution that --rand-type names.
function random_id()
   return sysbench.rand.default(1, sysbench.opt.table_size)
end

local function create(con, name)
   con:query("CREATE TABLE " .. name .. [[ (id INT(10) UNSIGNED NOT NULL AUTO_INCREMENT,
      k INT(10) UNSIGNED NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '',
      PRIMARY KEY (id), KEY k (k)) ENGINE=InnoDB DEFAULT CHARSET=utf8]])
end

local function fill(con, name)
   local size = sysbench.opt.table_size
   for first = 1, size, ROWS_PER_INSERT do
      local rows = {}
      for id = first, math.min(first + ROWS_PER_INSERT - 1, size) do
         rows[#rows + 1] = string.format("(%d,%d,'%s','%s')", id, sysbench.rand.default(1, size), random_c(), random_pad())
      end
      con:query("INSERT INTO " .. name .. " (id, k, c, pad) VALUES " .. table.concat(rows, ","))
   end
end

local function prepare()
   local con = sysbench.sql.driver():connect()
   for i = sysbench.tid + 1, sysbench.opt.tables, sysbench.opt.threads do
      create(con, "sbtest" .. i)
      fill(con, "sbtest" .. i)
   end
   con:disconnect()
end

local function cleanup()
   local con = sysbench.sql.driver():connect()
   for i = 1, sysbench.opt.tables do
      con:query("DROP TABLE IF EXISTS sbtest" .. i)
   end
   con:disconnect()
end

sysbench.cmdline.commands = {
   prepare = {prepare, sysbench.cmdline.PARALLEL_COMMAND},
   cleanup = {cleanup},
}

-- Runs a statement made by string.format.
function exec(format, ...)
   return con:query(string.format(format, ...))
end

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
end

function thread_done()
   con:disconnect()
end

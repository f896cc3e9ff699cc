#!/usr/bin/env sysbench
-- TPC-C for sysbench 1.0, written after the TPC Benchmark C Standard Specification, revision 5.11. Clauses are named where they apply.
--
--   sysbench tpcc.lua --mysql-db=tpcc --warehouses=4 --threads=4  prepare
--   sysbench tpcc.lua --mysql-db=tpcc --warehouses=4 --threads=64 --time=300 --report-interval=1  run
--   sysbench tpcc.lua --mysql-db=tpcc --warehouses=4  check
--   sysbench tpcc.lua --mysql-db=tpcc  cleanup
--
-- `run` counts business transactions of all five kinds, and says how many new orders a minute were placed. There are no keying and think times (clause 5.2.5): clients go on at once, so the figure is no tpmC of the standard.
-- `check` asks for the consistency conditions of clause 3.3.2 and fails when one does not hold, also while nothing but a crash
-- has happened since.

if sysbench.cmdline.command == nil then
   error("Command is required: prepare, run, check or cleanup")
end

sysbench.cmdline.options = {
   warehouses = {"Number of warehouses", 1},
   items = {"Items for sale; the standard says 100000", 100000},
   customers = {"Customers and first orders of a district, at most 3000, which the standard says", 3000},
   foreign_keys = {"Declare the foreign keys of clause 1.3", true},
   engine = {"Storage engine of the tables", "innodb"},
}

local DISTRICTS = 10
-- Of a district's first orders this share has been delivered (clause 4.3.3.1: 2100 of 3000).
local DELIVERED_SHARE = 0.7
local ROWS_PER_INSERT = 500

-- The constants C of NURand (clause 2.1.6). Those of last names differ between load and run by 85, as 2.1.6.1 asks.
local C_LAST_LOAD, C_LAST_RUN, C_CUSTOMER, C_ITEM = 123, 208, 259, 7911

local random = sysbench.rand.uniform

local function nurand(a, c, low, high)
   local mixed = bit.bor(random(0, a), random(low, high)) + c
   return mixed % (high - low + 1) + low
end

-- Clause 2.1.6 scales A with the range: 1023 for 3000 customers, 8191 for 100000 items.
local function random_customer()
   return nurand(1023, C_CUSTOMER, 1, sysbench.opt.customers)
end

local function random_item()
   return nurand(8191, C_ITEM, 1, sysbench.opt.items)
end

local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

-- Clause 4.3.2.3.
local function last_name(number)
   return SYLLABLES[math.floor(number / 100) + 1] .. SYLLABLES[math.floor(number / 10) % 10 + 1]
      .. SYLLABLES[number % 10 + 1]
end

-- With fewer than 1000 customers a district has only as many names.
local function random_last_name(c)
   return last_name(nurand(255, c, 0, math.min(999, sysbench.opt.customers - 1)))
end

local function text(low, high)
   return sysbench.rand.string(string.rep("@", random(low, high)))
end

local function digits(count)
   return sysbench.rand.string(string.rep("#", count))
end

-- Text in which one of ten holds the word ORIGINAL (clause 4.3.3.1).
local function data(low, high)
   local value = text(low, high)
   if random(1, 10) == 1 then
      local at = random(0, #value - 8)
      value = value:sub(1, at) .. "ORIGINAL" .. value:sub(at + 9)
   end
   return value
end

-- Street, street, city, state and zip code as values of SQL.
local function address()
   return string.format("'%s','%s','%s','%s','%s11111'", text(10, 20), text(10, 20), text(10, 20), text(2, 2), digits(4))
end

local function shuffled(count)
   local order = {}
   for i = 1, count do
      local j = random(1, i)
      order[i] = order[j]
      order[j] = i
   end
   return order
end

local ADDRESS = [[%s_street_1 VARCHAR(20), %s_street_2 VARCHAR(20), %s_city VARCHAR(20), %s_state CHAR(2), %s_zip CHAR(9)]]

local function address_columns(prefix)
   return (ADDRESS:gsub("%%s", prefix))
end

-- Tables in the order in which they can be made: name, columns and keys, foreign keys (clauses 1.3 and 1.4).
local TABLES = {
   {"warehouse", "w_id INT NOT NULL, w_name VARCHAR(10), " .. address_columns("w") .. [[,
      w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2), PRIMARY KEY (w_id)]], {}},
   {"district", "d_id TINYINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10), " .. address_columns("d") .. [[,
      d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)]],
      {"(d_w_id) REFERENCES warehouse (w_id)"}},
   {"customer", [[c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16), c_middle CHAR(2),
      c_last VARCHAR(16), ]] .. address_columns("c") .. [[, c_phone CHAR(16), c_since DATETIME, c_credit CHAR(2),
      c_credit_lim DECIMAL(12,2), c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2),
      c_payment_cnt SMALLINT, c_delivery_cnt SMALLINT, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id),
      KEY customer_name (c_w_id, c_d_id, c_last, c_first)]],
      {"(c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)"}},
   {"history", [[h_c_id INT, h_c_d_id TINYINT, h_c_w_id INT, h_d_id TINYINT, h_w_id INT, h_date DATETIME,
      h_amount DECIMAL(6,2), h_data VARCHAR(24), KEY history_customer (h_c_w_id, h_c_d_id, h_c_id),
      KEY history_district (h_w_id, h_d_id)]],
      {"(h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
       "(h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)"}},
   {"orders", [[o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT, o_entry_d DATETIME,
      o_carrier_id TINYINT, o_ol_cnt TINYINT, o_all_local TINYINT, PRIMARY KEY (o_w_id, o_d_id, o_id),
      KEY orders_customer (o_w_id, o_d_id, o_c_id, o_id)]],
      {"(o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)"}},
   {"new_order", [[no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id INT NOT NULL,
      PRIMARY KEY (no_w_id, no_d_id, no_o_id)]],
      {"(no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)"}},
   {"item", [[i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50),
      PRIMARY KEY (i_id)]], {}},
   {"stock", [[s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT, s_dist_01 CHAR(24), s_dist_02 CHAR(24),
      s_dist_03 CHAR(24), s_dist_04 CHAR(24), s_dist_05 CHAR(24), s_dist_06 CHAR(24), s_dist_07 CHAR(24),
      s_dist_08 CHAR(24), s_dist_09 CHAR(24), s_dist_10 CHAR(24), s_ytd DECIMAL(8,0), s_order_cnt SMALLINT,
      s_remote_cnt SMALLINT, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id), KEY stock_item (s_i_id)]],
      {"(s_w_id) REFERENCES warehouse (w_id)", "(s_i_id) REFERENCES item (i_id)"}},
   {"order_line", [[ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id INT NOT NULL, ol_number TINYINT NOT NULL,
      ol_i_id INT, ol_supply_w_id INT, ol_delivery_d DATETIME, ol_quantity SMALLINT, ol_amount DECIMAL(6,2),
      ol_dist_info CHAR(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number),
      KEY order_line_stock (ol_supply_w_id, ol_i_id)]],
      {"(ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
       "(ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)"}},
}

local function create_tables(con)
   for _, definition in ipairs(TABLES) do
      local name, columns, keys = unpack(definition)
      if sysbench.opt.foreign_keys then
         for _, key in ipairs(keys) do
            columns = columns .. ", FOREIGN KEY " .. key
         end
      end
      con:query(string.format("CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = %s", name, columns, sysbench.opt.engine))
   end
end

-- Sends rows in statements of ROWS_PER_INSERT, several at once for several tables.
local Loader = {}
Loader.__index = Loader

local function loader(con, target)
   return setmetatable({con = con, target = target, rows = {}}, Loader)
end

function Loader:add(format, ...)
   self.rows[#self.rows + 1] = string.format(format, ...)
   if #self.rows == ROWS_PER_INSERT then
      self:flush()
   end
end

function Loader:flush()
   if #self.rows > 0 then
      self.con:query("INSERT INTO " .. self.target .. " VALUES " .. table.concat(self.rows, ","))
      self.rows = {}
   end
end

local function load_items(con)
   local items = loader(con, "item")
   for i = 1, sysbench.opt.items do
      items:add("(%d,%d,'%s',%.2f,'%s')", i, random(1, 10000), text(14, 24), random(100, 10000) / 100, data(26, 50))
   end
   items:flush()
end

local function load_stock(con, w)
   local stock = loader(con, "stock")
   for i = 1, sysbench.opt.items do
      local districts = {}
      for d = 1, DISTRICTS do
         districts[d] = "'" .. text(24, 24) .. "'"
      end
      stock:add("(%d,%d,%d,%s,0,0,0,'%s')", i, w, random(10, 100), table.concat(districts, ","), data(26, 50))
   end
   stock:flush()
end

local function load_customers(con, w, d)
   local customers, history = loader(con, "customer"), loader(con, "history")
   for c = 1, sysbench.opt.customers do
      local name = c <= 1000 and last_name(c - 1) or random_last_name(C_LAST_LOAD)
      customers:add("(%d,%d,%d,'%s','OE','%s',%s,'%s',NOW(),'%s',50000,%.4f,-10,10,1,0,'%s')", c, d, w, text(8, 16), name,
         address(), digits(16), random(1, 10) == 1 and "BC" or "GC", random(0, 5000) / 10000, text(300, 500))
      history:add("(%d,%d,%d,%d,%d,NOW(),10,'%s')", c, d, w, d, w, text(12, 24))
   end
   customers:flush()
   history:flush()
end

-- How many of the first orders of a district were delivered before it all began.
local function delivered_at_first()
   return math.floor(sysbench.opt.customers * DELIVERED_SHARE)
end

local function load_orders(con, w, d)
   local orders, lines, open = loader(con, "orders"), loader(con, "order_line"), loader(con, "new_order")
   local delivered = delivered_at_first()
   for o, customer in ipairs(shuffled(sysbench.opt.customers)) do
      local count, done = random(5, 15), o <= delivered
      orders:add("(%d,%d,%d,%d,NOW(),%s,%d,1)", o, d, w, customer, done and random(1, 10) or "NULL", count)
      for number = 1, count do
         lines:add("(%d,%d,%d,%d,%d,%d,%s,5,%s,'%s')", o, d, w, number, random(1, sysbench.opt.items), w,
            done and "NOW()" or "NULL", done and "0" or string.format("%.2f", random(1, 999999) / 100), text(24, 24))
      end
      if not done then
         open:add("(%d,%d,%d)", o, d, w)
      end
   end
   orders:flush()
   lines:flush()
   open:flush()
end

local function load_warehouse(con, w)
   con:query(string.format("INSERT INTO warehouse VALUES (%d,'%s',%s,%.4f,%d)", w, text(6, 10), address(),
      random(0, 2000) / 10000, 10 * DISTRICTS * sysbench.opt.customers))
   load_stock(con, w)
   for d = 1, DISTRICTS do
      con:query(string.format("INSERT INTO district VALUES (%d,%d,'%s',%s,%.4f,%d,%d)", d, w, text(6, 10), address(),
         random(0, 2000) / 10000, 10 * sysbench.opt.customers, sysbench.opt.customers + 1))
      load_customers(con, w, d)
      load_orders(con, w, d)
   end
end

-- Each thread loads the warehouses whose turn it is. Parents may come behind their children, so foreign keys are not looked at.
local function prepare()
   local con = sysbench.sql.driver():connect()
   con:query("SET foreign_key_checks = 0")
   create_tables(con)
   if sysbench.tid == 0 then
      load_items(con)
   end
   for w = sysbench.tid + 1, sysbench.opt.warehouses, sysbench.opt.threads do
      load_warehouse(con, w)
   end
   con:disconnect()
end

local function cleanup()
   local con = sysbench.sql.driver():connect()
   for i = #TABLES, 1, -1 do
      con:query("DROP TABLE IF EXISTS " .. TABLES[i][1])
   end
   con:disconnect()
end

local drv, con

-- Runs a statement made by string.format.
local function exec(format, ...)
   return con:query(string.format(format, ...))
end

-- The first row of a query's result, its columns as texts.
local function row(format, ...)
   return con:query_row(string.format(format, ...))
end

local function other_warehouse(w)
   if sysbench.opt.warehouses == 1 then
      return w
   end
   local other = random(1, sysbench.opt.warehouses - 1)
   return other < w and other or other + 1
end

-- The lines of a new order by item, so that two orders lock their stock in one order; clause 2.4.1.
local function new_lines(w)
   local lines, all_local = {}, 1
   for number = 1, random(5, 15) do
      local supply = random(1, 100) == 1 and other_warehouse(w) or w
      if supply ~= w then
         all_local = 0
      end
      lines[number] = {item = random_item(), supply = supply, quantity = random(1, 10)}
   end
   table.sort(lines, function(a, b)
      if a.supply ~= b.supply then
         return a.supply < b.supply
      end
      return a.item < b.item
   end)
   return lines, all_local
end

-- Clause 2.4. One of a hundred asks for an item that is not there, and is rolled back.
local function new_order()
   local w, d, c = random(1, sysbench.opt.warehouses), random(1, DISTRICTS), random_customer()
   local lines, all_local = new_lines(w)
   if random(1, 100) == 1 then
      lines[#lines].item = sysbench.opt.items + 1
   end
   con:query("BEGIN")
   row([[SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse
      WHERE w_id = %d AND c_w_id = w_id AND c_d_id = %d AND c_id = %d]], w, d, c)
   local o = tonumber((row("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", w, d)))
   exec("UPDATE district SET d_next_o_id = %d WHERE d_w_id = %d AND d_id = %d", o + 1, w, d)
   exec([[INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
      VALUES (%d, %d, %d, %d, NOW(), %d, %d)]], o, d, w, c, #lines, all_local)
   exec("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (%d, %d, %d)", o, d, w)
   for number, line in ipairs(lines) do
      local price = row("SELECT i_price, i_name, i_data FROM item WHERE i_id = %d", line.item)
      if price == nil then
         con:query("ROLLBACK")
         return
      end
      local quantity, info = row([[SELECT s_quantity, s_dist_%02d, s_data FROM stock WHERE s_i_id = %d AND s_w_id = %d
         FOR UPDATE]], d, line.item, line.supply)
      quantity = tonumber(quantity) - line.quantity
      if quantity < 10 then
         quantity = quantity + 91
      end
      exec([[UPDATE stock SET s_quantity = %d, s_ytd = s_ytd + %d, s_order_cnt = s_order_cnt + 1,
         s_remote_cnt = s_remote_cnt + %d WHERE s_i_id = %d AND s_w_id = %d]],
         quantity, line.quantity, line.supply == w and 0 or 1, line.item, line.supply)
      exec([[INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
         ol_dist_info) VALUES (%d, %d, %d, %d, %d, %d, %d, %.2f, '%s')]],
         o, d, w, number, line.item, line.supply, line.quantity, line.quantity * tonumber(price), info)
   end
   con:query("COMMIT")
end

-- Of all customers with a last name the one in the middle by first name (clause 2.5.2.2).
local function customer_by_name(w, d)
   local found = exec([[SELECT c_id FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first]],
      w, d, random_last_name(C_LAST_RUN))
   local id
   for i = 1, math.ceil(found.nrows / 2) do
      id = tonumber(found:fetch_row()[1])
   end
   return id
end

-- Six of ten customers are known by name. With few customers a name may be nobody's.
local function some_customer(w, d)
   return random(1, 100) <= 60 and customer_by_name(w, d) or random_customer()
end

-- Clause 2.5.
local function payment()
   local w, d = random(1, sysbench.opt.warehouses), random(1, DISTRICTS)
   local cw, cd = w, d
   if random(1, 100) > 85 then
      cw, cd = other_warehouse(w), random(1, DISTRICTS)
   end
   local amount = string.format("%.2f", random(100, 500000) / 100)
   con:query("BEGIN")
   exec("UPDATE warehouse SET w_ytd = w_ytd + %s WHERE w_id = %d", amount, w)
   local w_name = row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = %d", w)
   exec("UPDATE district SET d_ytd = d_ytd + %s WHERE d_w_id = %d AND d_id = %d", amount, w, d)
   local d_name = row([[SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district
      WHERE d_w_id = %d AND d_id = %d]], w, d)
   local c = some_customer(cw, cd)
   local credit = row([[SELECT c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
      c_credit_lim, c_discount, c_balance, c_since FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d
      FOR UPDATE]], cw, cd, c)
   local note = ""
   if credit == "BC" then
      note = string.format(", c_data = LEFT(CONCAT('%d %d %d %d %d %s ', c_data), 500)", c, cd, cw, d, w, amount)
   end
   exec([[UPDATE customer SET c_balance = c_balance - %s, c_ytd_payment = c_ytd_payment + %s,
      c_payment_cnt = c_payment_cnt + 1%s WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d]],
      amount, amount, note, cw, cd, c)
   exec([[INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
      VALUES (%d, %d, %d, %d, %d, NOW(), %s, '%s    %s')]], c, cd, cw, d, w, amount, w_name, d_name)
   con:query("COMMIT")
end

-- Clause 2.6.
local function order_status()
   local w, d = random(1, sysbench.opt.warehouses), random(1, DISTRICTS)
   con:query("BEGIN")
   local c = some_customer(w, d)
   row([[SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d]],
      w, d, c)
   local o = row([[SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d
      ORDER BY o_id DESC LIMIT 1]], w, d, c)
   exec([[SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
      WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d]], w, d, tonumber(o))
   con:query("COMMIT")
end

-- Clause 2.7, all districts in one transaction. What is read of an order is read behind its own changes: the snapshot may be older
-- than an order that was placed while this transaction waited for its row.
local function delivery()
   local w, carrier = random(1, sysbench.opt.warehouses), random(1, 10)
   con:query("BEGIN")
   for d = 1, DISTRICTS do
      local o = row([[SELECT no_o_id FROM new_order WHERE no_w_id = %d AND no_d_id = %d ORDER BY no_o_id LIMIT 1
         FOR UPDATE]], w, d)
      if o ~= nil then
         o = tonumber(o)
         exec("DELETE FROM new_order WHERE no_w_id = %d AND no_d_id = %d AND no_o_id = %d", w, d, o)
         exec("UPDATE orders SET o_carrier_id = %d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d", carrier, w, d, o)
         local c = row("SELECT o_c_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d", w, d, o)
         exec("UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, o)
         local sum = row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d",
            w, d, o)
         exec([[UPDATE customer SET c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d]], sum, w, d, tonumber(c))
      end
   end
   con:query("COMMIT")
end

-- Clause 2.8.
local function stock_level()
   local w, d = random(1, sysbench.opt.warehouses), random(1, DISTRICTS)
   con:query("BEGIN")
   local o = tonumber((row("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", w, d)))
   row([[SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id < %d
      AND ol_o_id >= %d AND s_w_id = %d AND s_i_id = ol_i_id AND s_quantity < %d]], w, d, o, o - 20, w, random(10, 20))
   con:query("COMMIT")
end

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
end

function thread_done()
   con:disconnect()
end

-- The mix of clause 5.2.3.
function event()
   local dice = random(1, 100)
   if dice <= 45 then
      new_order()
   elseif dice <= 88 then
      payment()
   elseif dice <= 92 then
      order_status()
   elseif dice <= 96 then
      delivery()
   else
      stock_level()
   end
end

-- A lock wait that timed out has undone its statement alone.
function sysbench.hooks.before_restart_event()
   con:query("ROLLBACK")
end

-- Orders placed so far, of all districts.
local function orders_placed()
   local counter = sysbench.sql.driver():connect()
   local sum = tonumber((counter:query_row("SELECT SUM(d_next_o_id) FROM district")))
   counter:disconnect()
   return sum
end

local placed_before

function init()
   if sysbench.cmdline.command == "run" then
      placed_before = orders_placed()
   end
end

-- Takes the place of sysbench's own reports, whose figures it repeats. After a checkpoint they are of the time since then. The report of a
-- checkpoint is made in a state of its own, which does not know what was placed before: it says nothing of new orders.
function sysbench.hooks.report_cumulative(stat)
   local seconds, queries = stat.time_interval, stat.reads + stat.writes + stat.other
   print("TPC-C:")
   if placed_before ~= nil then
      print(string.format("    new orders per minute:               %.2f",
         (orders_placed() - placed_before) / stat.time_total * 60))
   end
   print(string.format([[
    transactions:                        %d (%.2f per sec.)
    queries:                             %d (%.2f per sec.)
    errors taken back:                   %d (%.2f per sec.)
    time:                                %.4f s
    latency (ms): min %.2f, avg %.2f, max %.2f, %dth percentile %.2f
]],
      stat.events, stat.events / seconds, queries, queries / seconds, stat.errors, stat.errors / seconds, seconds,
      stat.latency_min * 1000, stat.latency_avg * 1000, stat.latency_max * 1000, sysbench.opt.percentile,
      stat.latency_pct * 1000))
end

-- The consistency conditions of clause 3.3.2: number, what holds, and a query that finds what breaks it. The eleventh speaks of a
-- database without deliveries; with c_delivery_cnt, which counts these, it holds always.
local CONDITIONS = {
   {1, "w_ytd = sum(d_ytd)", [[SELECT w_id FROM warehouse LEFT JOIN
      (SELECT d_w_id, SUM(d_ytd) AS ytd FROM district GROUP BY d_w_id) d ON d_w_id = w_id
      WHERE NOT w_ytd <=> ytd]]},
   {2, "d_next_o_id - 1 = max(o_id) = max(no_o_id)", [[SELECT d_w_id, d_id FROM district
      LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS o FROM orders GROUP BY o_w_id, o_d_id) o
         ON o_w_id = d_w_id AND o_d_id = d_id
      LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS n FROM new_order GROUP BY no_w_id, no_d_id) n
         ON no_w_id = d_w_id AND no_d_id = d_id
      WHERE NOT d_next_o_id - 1 <=> o OR n <> o]]},
   {3, "the open orders are without gaps", [[SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id
      HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)]]},
   {4, "sum(o_ol_cnt) = count(order_line)", [[SELECT d_w_id, d_id FROM district
      LEFT JOIN (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS said FROM orders GROUP BY o_w_id, o_d_id) o
         ON o_w_id = d_w_id AND o_d_id = d_id
      LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS found FROM order_line GROUP BY ol_w_id, ol_d_id) l
         ON ol_w_id = d_w_id AND ol_d_id = d_id
      WHERE NOT said <=> found]]},
   {5, "an order without carrier is open, others are not", [[SELECT o_w_id, o_d_id, o_id FROM orders
      LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
      WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)]]},
   {6, "o_ol_cnt = count(order_line) of each order", [[SELECT o_w_id, o_d_id, o_id FROM orders
      LEFT JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
      GROUP BY o_w_id, o_d_id, o_id HAVING MAX(o_ol_cnt) <> COUNT(ol_number)]]},
   {7, "lines are delivered with their order", [[SELECT ol_w_id, ol_d_id, ol_o_id, ol_number FROM order_line
      LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
      WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)]]},
   {8, "w_ytd = sum(h_amount)", [[SELECT w_id FROM warehouse LEFT JOIN
      (SELECT h_w_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id) h ON h_w_id = w_id WHERE NOT w_ytd <=> paid]]},
   {9, "d_ytd = sum(h_amount)", [[SELECT d_w_id, d_id FROM district LEFT JOIN
      (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) h
         ON h_w_id = d_w_id AND h_d_id = d_id WHERE NOT d_ytd <=> paid]]},
   {10, "c_balance = sum(ol_amount) delivered - sum(h_amount)", [[SELECT c_w_id, c_d_id, c_id FROM customer
      LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS got FROM orders, order_line WHERE ol_w_id = o_w_id
         AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
      LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history
         GROUP BY h_c_w_id, h_c_d_id, h_c_id) h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
      WHERE c_balance <> IFNULL(got, 0) - IFNULL(paid, 0)]]},
   {11, "count(orders) - count(new_order) = delivered orders", [[SELECT d_w_id, d_id FROM district
      LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS o FROM orders GROUP BY o_w_id, o_d_id) o
         ON o_w_id = d_w_id AND o_d_id = d_id
      LEFT JOIN (SELECT no_w_id, no_d_id, COUNT(*) AS n FROM new_order GROUP BY no_w_id, no_d_id) n
         ON no_w_id = d_w_id AND no_d_id = d_id
      LEFT JOIN (SELECT c_w_id, c_d_id, SUM(c_delivery_cnt) AS c FROM customer GROUP BY c_w_id, c_d_id) c
         ON c_w_id = d_w_id AND c_d_id = d_id
      WHERE NOT IFNULL(o, 0) - IFNULL(n, 0) <=> c + DELIVERED_AT_FIRST]]},
   {12, "c_balance + c_ytd_payment = sum(ol_amount) delivered", [[SELECT c_w_id, c_d_id, c_id FROM customer
      LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS got FROM orders, order_line WHERE ol_w_id = o_w_id
         AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
      WHERE c_balance + c_ytd_payment <> IFNULL(got, 0)]]},
}

local function check()
   con = sysbench.sql.driver():connect()
   local found = tonumber((con:query_row("SELECT COUNT(*) FROM warehouse")))
   if found ~= sysbench.opt.warehouses then
      error(string.format("%d warehouses found, --warehouses says %d", found, sysbench.opt.warehouses))
   end
   local broken = 0
   for _, condition in ipairs(CONDITIONS) do
      local number, holds, query = unpack(condition)
      local against = con:query((query:gsub("DELIVERED_AT_FIRST", delivered_at_first()))).nrows
      print(string.format("condition %2d %s: %s", number, against == 0 and "holds" or against .. " rows against it", holds))
      broken = broken + math.min(against, 1)
   end
   con:disconnect()
   if broken > 0 then
      error(broken .. " of the consistency conditions do not hold")
   end
end

sysbench.cmdline.commands = {
   prepare = {prepare, sysbench.cmdline.PARALLEL_COMMAND},
   check = {check},
   cleanup = {cleanup},
}

-- Point query that returns the whole row, as the lab's workload `point` does: sysbench's own oltp_point_select returns one column.
function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   statement = con:prepare("SELECT * FROM " .. (os.getenv("LAB_TABLE") or "sbtest1") .. " WHERE id=?")
   id = statement:bind_create(sysbench.sql.type.INT)
   statement:bind_param(id)
end

function event()
   id:set(sysbench.rand.uniform(1, sysbench.opt.rows))
   local set = statement:execute()
   set:free()
end

function thread_done()
   statement:close()
   con:disconnect()
end

sysbench.cmdline.options = { rows = { "Rows of the table", 100000 } }

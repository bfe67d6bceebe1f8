-- Follows index.lua where the rows may be on other servers than the index. Returns 1 if the row was taken in, 2 if a newer copy stays and 0
-- if it has no place, the bytes of all rows, how many rows were evicted for the account's bound and for that of all, and the keys of
-- the rows to delete.
for _, row in ipairs(evicted) do result[#result + 1] = row end
return result

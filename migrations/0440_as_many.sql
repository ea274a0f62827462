-- Fails the statement, and with it the transaction, where something was done to another number of rows than was meant: for
-- who sends the commit in the same message and cannot look at the answer first.
create function svc.as_many(done bigint, meant bigint, code text) returns void language plpgsql as $$
begin
  if done is distinct from meant then
    raise exception 'done to % rows instead of %: somebody else was there at the same time', done, meant using errcode = code;
  end if;
end $$;

-- concurrently
-- Sessions that have not begun and wait for a spend cap to have room again: looked for by themselves, like blocked ones.
create index concurrently if not exists sessions_capped on svc.sessions (id) where waits_for = 'cap';

-- A person at Neovim, in a tree with an agent: types, takes what is offered, looks at a key, goes to an import. What came of it
-- is written to $SEEN as JSON. The editor is set up by the lines of the page for editors, which were read before.

-- Before 0.8 a client is started and attached in two steps.
if vim.lsp.start == nil then
  local started
  vim.lsp.start = function(config)
    started = started or vim.lsp.start_client(config)
    vim.lsp.buf_attach_client(0, started)
    return started
  end
end

local seen = { offered = {}, missed = {} }
local me
local function pause(ms)
  vim.defer_fn(function() coroutine.resume(me) end, ms)
  coroutine.yield()
end
local function wait(what, holds)
  for _ = 1, 1500 do
    if holds() then return true end
    pause(20)
  end
  table.insert(seen.missed, what)
  return false
end
local function keys(text)
  vim.api.nvim_input(text)
end
local function line(n) return vim.fn.getline(n) end

-- Types behind line n, asks what may stand there, takes the first of it.
local function take(name, n, text)
  keys('<Esc>' .. n .. 'GA' .. text)
  wait('typing ' .. name, function() return line(n):sub(-#text) == text end)
  local before = line(n)
  keys('<C-x><C-o>')
  wait('an offer for ' .. name, function() return vim.fn.pumvisible() == 1 or line(n) ~= before end)
  local words = {}
  for _, item in ipairs(vim.fn.complete_info({ 'items' }).items) do table.insert(words, item.word) end
  keys('<C-y><Esc>')
  wait('taking ' .. name, function() return vim.fn.mode() == 'n' end)
  seen.offered[name] = { words = words, line = line(n) }
end

local function told()
  local found = {}
  for _, one in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, { line = one.lnum + 1, column = one.col + 1, code = one.code, source = one.source, message = one.message })
  end
  return found
end

me = coroutine.create(function()
  vim.o.completeopt = 'menu,menuone'
  vim.cmd('edit .svc/agents/a.yaml')
  vim.bo.omnifunc = 'v:lua.vim.lsp.omnifunc'
  wait('the server', function()
    local clients = vim.lsp.get_clients and vim.lsp.get_clients() or vim.lsp.get_active_clients()
    return clients[1] ~= nil and clients[1].initialized == true
  end)
  wait('the diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
  seen.first = told()
  take('value', 2, ' harness-')
  take('event', 5, 'codehost.pus')
  take('path', 7, '$.codehost.repository.full')
  take('token', 8, 'codehost.push.re')
  take('key', 10, 'concur')
  keys('<Esc>10GA 2<Esc>')
  wait('the mistake', function()
    for _, one in ipairs(vim.diagnostic.get(0)) do
      if one.code == 'concurrency-invalid' then return true end
    end
    return false
  end)
  seen.last = told()
  vim.api.nvim_win_set_cursor(0, { 2, 2 })
  vim.lsp.buf.hover()
  wait('a hover', function() return #vim.api.nvim_list_wins() > 1 end)
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if window ~= vim.api.nvim_get_current_win() then
      seen.hover = table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false), '\n')
    end
  end
  vim.cmd('write')
  vim.api.nvim_win_set_cursor(0, { 3, 14 })
  vim.lsp.buf.definition()
  wait('the import', function() return vim.fn.expand('%:t') == 'base.yaml' end)
  seen.at = vim.fn.expand('%:p')
end)

vim.defer_fn(function()
  local good, why = coroutine.resume(me)
  if not good then seen.error = tostring(why) end
end, 0)
local timer = vim.loop.new_timer()
timer:start(20, 20, vim.schedule_wrap(function()
  if coroutine.status(me) ~= 'dead' then return end
  timer:stop()
  vim.fn.writefile({ vim.json.encode(seen) }, vim.env.SEEN)
  vim.cmd('qall!')
end))

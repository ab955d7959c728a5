-- Drives `obey acp` from Neovim: codecompanion.nvim as the guide configures it, a turn with one permission that is answered with the
-- plugin's own key. Prints how it went. OBEY_TEST_NEOVIM names the folder with the plugin and plenary.nvim, which it needs.

-- Lua 5.1 has no main coroutine, which the plugin relies on; Debian's Neovim is built with the rule of Lua 5.2.
local running = coroutine.running
coroutine.running = function()
  local thread, is_main = running()
  return not is_main and thread or nil
end

local folder = assert(vim.env.OBEY_TEST_NEOVIM)
for _, plugin in ipairs({ "plenary.nvim", "codecompanion.nvim" }) do
  vim.opt.runtimepath:append(folder .. "/" .. plugin)
  vim.cmd.runtime({ "plugin/*." .. "{lua,vim}", bang = true })
end

-- The lines of docs/guide/editors.md, with the agent that needs no model.
require("codecompanion").setup({
  adapters = {
    acp = {
      obey = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = "obey",
          formatted_name = "obey",
          commands = { default = { "obey", "acp", "--provider", "scripted" } },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "obey" } },
})

local function wait(what, condition)
  assert(vim.wait(60000, condition, 20), "waited in vain for " .. what)
end

local ended, asked = 0, 0
local function count(event, counted)
  vim.api.nvim_create_autocmd("User", { pattern = "CodeCompanion" .. event, callback = counted })
end
count("ChatDone", function() ended = ended + 1 end)
count("ToolApprovalRequested", function() asked = asked + 1 end)

local function turn()
  local chat = require("codecompanion").chat({})
  -- The plugin connects by itself; a message sent before that would connect a second time.
  wait("a session", function() return chat.acp_connection and chat.acp_connection:is_connected() end)
  chat:add_buf_message({ role = "user", content = vim.env.OBEY_TEST_PROMPT })
  chat:submit()
  local accept = require("codecompanion.interactions.chat.tools.labels").keymaps().accept
  vim.api.nvim_set_current_buf(chat.bufnr)
  wait("a request", function() return asked > 0 and vim.fn.maparg(accept, "n", false, true).buffer == 1 end)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(accept, true, false, true), "xm", false)
  wait("the end of the turn", function() return ended > 0 end)
  local text = table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), " ")
  io.stdout:write(("ended %d, asked %d, shown: %s\n"):format(ended, asked, text))
end

local is_done, reason = xpcall(turn, debug.traceback)
if not is_done then
  io.stdout:write(reason .. "\n")
end
vim.cmd(is_done and "quitall!" or "cquit 1")

'use strict';
// Put before svc-init.cjs: which processes of the box belong to one program, how they are ended, and what the kernel tells of
// memory. Both are one source for `node -e`.

(() => {
const fs = require('node:fs');

const MARKER = 'SVC_SANDBOX_ID';

function processes() {
  return fs.readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, 'latin1');
      // The name in parentheses may hold anything; the fields after it are plain.
      const [state, parent, group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (state === 'Z' || state === 'X') return [];
      let environ = '';
      try {
        environ = fs.readFileSync(`/proc/${name}/environ`, 'latin1');
      } catch {
        // Of another user.
      }
      return [{ pid: Number(name), parent: Number(parent), group: Number(group), session: Number(session), environ }];
    } catch {
      return []; // Gone since the directory was read.
    }
  });
}

/** Kills a program with all that carries its mark, is in its group or session, or descends from such. */
async function sweep(marker, leader) {
  const text = `${MARKER}=${marker}\0`;
  for (let tries = 0; tries < 200; tries += 1) {
    const all = processes();
    const isIts = ({ group, session, environ }) =>
      group === leader || session === leader || environ.startsWith(text) || environ.includes(`\0${text}`);
    const chosen = new Map(all.filter(isIts).map((found) => [found.pid, found]));
    for (let before = -1; before !== chosen.size; ) {
      before = chosen.size;
      for (const found of all) if (chosen.has(found.parent)) chosen.set(found.pid, found);
    }
    if (chosen.size === 0) return;
    // Stopped first, so that none of them can start another while the rest is being killed.
    for (const name of ['SIGSTOP', 'SIGKILL']) {
      for (const pid of chosen.keys()) {
        try {
          process.kill(pid, name);
        } catch {
          // Gone already.
        }
      }
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(2 << tries, 100)));
  }
}

/** How often the kernel has ended a process of this box for want of memory. */
function oomKills() {
  for (const file of ['/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control']) {
    try {
      const count = /^oom_kill (\d+)$/m.exec(fs.readFileSync(file, 'latin1'));
      if (count !== null) return Number(count[1]);
    } catch {
      // The other kind of control group, or none.
    }
  }
  return 0;
}

/** Of the image, less what the engine or a shell has put there. */
function imageEnv() {
  const env = { ...process.env };
  for (const name of ['HOME', 'HOSTNAME', 'PWD', 'OLDPWD', 'SHLVL', 'TERM', '_', 'container']) delete env[name];
  return env;
}

/** Of a program that has ended: what could not be told as its own may hold a pipe for ever. */
function outlive(outputs, isClosed, isIdle) {
  const timer = setInterval(() => {
    if (isClosed()) clearInterval(timer);
    else if (isIdle()) for (const output of outputs) output.destroy();
  }, 1000);
}

globalThis.svcProcesses = { MARKER, sweep, oomKills, imageEnv, outlive };
})();

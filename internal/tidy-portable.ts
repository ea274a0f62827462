// What only Linux, or only a newer shell or make than macOS has, understands, and what to write instead. macOS is a place
// like Linux: its shell commands are BSD's, its bash is 3.2, its make is 3.81, and it has no /proc.

export interface Spelling {
  readonly pattern: RegExp;
  readonly instead: string;
}

/** In scripts, recipes, and in commands that are run on whatever machine a person has. */
export const linuxOnly: readonly Spelling[] = [
  { pattern: /\/proc\/|\/sys\/(?:fs|class|kernel)|\/dev\/shm/, instead: 'a way that does without, or ps' },
  {
    pattern: /\breadlink (?:-\w*[fem]|--canon)|\brealpath\b(?! ?[(,])/,
    instead: 'cd and pwd -P, or one readlink at a time',
  },
  { pattern: /\bsed (?:-\w+ )*-i(?![.\w])|\bsed (?:-\w+ )*(?:-i?r|--)/, instead: 'sed -i.bak, sed -E' },
  { pattern: /\bdate (?:-u )?(?:-d|-I|--)|\bdate [^|;)]*%N/, instead: 'node' },
  { pattern: /\bstat (?:-c|--)/, instead: 'wc -c, or node' },
  { pattern: /\bgrep (?:-\w+ )*-\w*[Pz]/, instead: 'grep -E' },
  { pattern: /\b(?:head|tail) -[nc] ?-\d/, instead: 'sed' },
  { pattern: /\bfind [^|;]*-(?:printf|readable|executable)\b/, instead: 'find -exec' },
  { pattern: /\bxargs (?:-\w+ )*-(?:d|\w*r)\b/, instead: 'find -exec {} +' },
  { pattern: /\bmktemp (?:-\w+ )*(?:-p|--)/, instead: 'mktemp with a template' },
  { pattern: /\bcp (?:-\w+ )*--(?!\s)|\bln (?:-\w+ )*-\w*r/, instead: 'the flags of POSIX' },
  { pattern: /\b(?:base64 -w|du -\w*b|df --|tar [^|;]*--(?:sort|owner|transform))/, instead: 'the flags of POSIX' },
  {
    pattern:
      /(?<![\w./'-])(?:flock|timeout \d|setsid|nproc|tac|sha256sum|md5sum|ldconfig|apt-get|getent|pidof|ionice)\b/,
    instead: 'what both systems have',
  },
  {
    pattern: /\b(?:declare|local|typeset) -[An]|\b(?:mapfile|readarray|coproc)\b|\$\{\w+(?:,,?|\^\^?|@[A-Z])\}|&>>|\|&/,
    instead: 'what bash 3.2 and sh have',
  },
];

/** In a Makefile beside them: what make learnt after 3.81. */
export const newerMake: readonly Spelling[] = [
  {
    pattern:
      /^\.ONESHELL|^\.SHELLFLAGS|\$\(file |\$\(let |\$\(intcmp |^[\w-]+\s*(?:!=|:::?=)|^(?:undefine|private|load)\b|^define \S+ *[:+?]?=|&:/,
    instead: 'what make 3.81 has',
  },
  {
    pattern: /^SHELL\s*[:?]?=\s*\/bin\/sh$/,
    instead: '/usr/bin/env sh: make 3.81 does not look in our PATH for what it starts without a shell',
  },
];

/** Scripts that say in their first lines that they need a Debian: they install what they try. */
export const needsLinux: readonly string[] = ['scripts/test-engines', 'scripts/test-image', 'scripts/test-pgbouncer'];

/** Lines of a file that are no comments and fit a spelling. */
export function spelled(path: string, text: string, spellings: readonly Spelling[]): string[] {
  return text.split('\n').flatMap((line, index) => {
    if (/^\s*(?:#|\/\/)/.test(line)) return [];
    return spellings
      .filter(({ pattern }) => pattern.test(line))
      .map(({ instead }) => `${path}:${index + 1}: ${line.trim()} (write instead: ${instead})`);
  });
}

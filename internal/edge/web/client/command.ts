// Commands of the command line as pages show them, to be pasted into a shell.

const plain = /^[\w./@:%+,=-]+$/;

/** A text as one word of a POSIX shell, whatever it holds. */
export const quoted = (text: string): string => (plain.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/**
 * A command with values put in, each one word. A value with a dash in front comes behind `--`, and options before it: it
 * is a name, and no option.
 */
export function shell(strings: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  const words: string[] = [];
  const options: string[] = [];
  let dashed: number | undefined;
  for (const [index, part] of strings.entries()) {
    for (const word of part.split(' ').filter((one) => one !== ''))
      (options.length > 0 || word.startsWith('--') ? options : words).push(word);
    if (index >= values.length) break;
    const value = String(values[index]);
    if (options.length > 0) {
      const option = value.startsWith('-') ? `${options.pop()}=` : '';
      options.push(`${option}${quoted(value)}`);
    } else {
      if (value.startsWith('-')) dashed ??= words.length;
      words.push(quoted(value));
    }
  }
  if (dashed === undefined) return [...words, ...options].join(' ');
  return [...words.slice(0, dashed), ...options, '--', ...words.slice(dashed)].join(' ');
}

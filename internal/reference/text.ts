// Markdown of the reference pages.

/** A table whose cells may hold any text. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

export const code = (text: string): string => `\`${text}\``;

/** A page: its parts with an empty line between, and one line feed at the end. */
export const page = (parts: readonly string[]): string => `${parts.join('\n\n')}\n`;

/** How a page says that it is made. */
export const madeFrom = (what: string): string => `<!-- made from ${what} by \`make reference\`; edit that instead -->`;

// Names of refs, as git spells them.

/** What `git check-ref-format` accepts, less what needs quoting anywhere; a commit's id too. */
const ref = /^(?!\/|.*(?:\/\/|\.\.|@\{|\/$|\.$|\.lock$|\.lock\/|\/\.))[^\0-\x20\x7f~^:?*[\\-][^\0-\x20\x7f~^:?*[\\]*$/;

/** Code units of a branch's name at most. */
export const branchCharsMax = 255;

/** The name of a branch, short or in full: what `git check-ref-format` accepts, less white space of any kind. */
export const branchPattern = /^(?![/.]|.*(?:\/\/|\.\.|@\{|\/$|\.$|\.lock$|\.lock\/|\/\.))[^\s\0-\x1f\x7f~^:?*[\\]+$/;

/** Whether a text can name a branch. */
export const isBranch = (text: string): boolean => text.length <= branchCharsMax && branchPattern.test(text);

/** Whether a text can name a branch, a tag or a commit; whether there is one, only its repository knows. */
export const isRef = (text: string): boolean => ref.test(text);

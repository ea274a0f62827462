// Names of refs, as git spells them.

/** What `git check-ref-format` accepts, less what needs quoting anywhere; a commit's id too. */
const ref = /^(?!\/|.*(?:\/\/|\.\.|@\{|\/$|\.$|\.lock$|\.lock\/|\/\.))[^\0-\x20\x7f~^:?*[\\-][^\0-\x20\x7f~^:?*[\\]*$/;

/** Whether a text can name a branch, a tag or a commit; whether there is one, only its repository knows. */
export const isRef = (text: string): boolean => ref.test(text);

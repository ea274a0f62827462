// Whether the long form of the kill and hostile-input tests was asked for (make test-crash, make test-fuzz).

export const isLong = (process.env['SVC_LONG'] ?? '') !== '';

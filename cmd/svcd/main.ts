// svcd for whoever starts it as TypeScript: main.mjs itself takes less memory and time to start.

import './main.mjs';

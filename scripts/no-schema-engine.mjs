#!/usr/bin/env node
console.error("This project applies its migrations itself; see `npm run new:migration` and `npm run check:migrations`.");
process.exit(1);

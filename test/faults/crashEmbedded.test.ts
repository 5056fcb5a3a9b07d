// kill -9 on the embedded database: what is kept, and how soon it serves again.
import { describeCrashes } from "../support/crashLoad.js";

describeCrashes("embedded");

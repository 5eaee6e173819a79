// The three steps as a workflow of Restate. It prints the port on which it listens.
import { createServer } from "node:http2";

import * as restate from "@restatedev/restate-sdk";

const steps = restate.workflow({
  name: "steps",
  handlers: {
    run: async (ctx) => {
      await ctx.run("first", () => null);
      await ctx.run("second", () => null);
      await ctx.run("third", () => null);
      return "yes";
    },
  },
});

const server = createServer(restate.createEndpointHandler({ services: [steps], bidirectional: true }));
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));

// Parses a file in the language of Power Query, and prints the kind of its expression.
const fs = require("node:fs");
const { DefaultSettings, TaskUtils } = require("@microsoft/powerquery-parser");

TaskUtils.tryLexParse(DefaultSettings, fs.readFileSync(process.argv[2], "utf8")).then((task) => {
  if (!TaskUtils.isParseStageOk(task)) throw task.error;
  process.stdout.write(task.ast.kind);
});

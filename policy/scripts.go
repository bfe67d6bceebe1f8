package policy

import _ "embed"

// The parts of the scripts.
var (
	//go:embed script/number.lua
	numberPart string
	//go:embed script/account.lua
	accountPart string
	//go:embed script/admit.lua
	admitPart string
	//go:embed script/charge.lua
	chargePart string
	//go:embed script/restore.lua
	restorePart string
	//go:embed script/inspect.lua
	inspectPart string
)

// The scripts that decide in Redis, each atomically.
var (
	admitLua   = numberPart + accountPart + admitPart
	chargeLua  = numberPart + accountPart + chargePart
	restoreLua = numberPart + accountPart + restorePart
	inspectLua = numberPart + inspectPart
)

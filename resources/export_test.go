package resources

// ValidateDeclared is the declarative validation of a strategy, with its fast path or without.
var ValidateDeclared = briefly.ValidateDeclaratively

// Briefly makes the first argument of ValidateDeclared.
func Briefly(strategy any) briefly { return briefly{strategy} }

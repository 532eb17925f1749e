package resources

// ValidateDeclared is what a strategy declares of an object, with its fast path or without.
var ValidateDeclared = briefly.ValidateDeclaratively

// Briefly makes the first argument of ValidateDeclared.
func Briefly(strategy any) briefly { return briefly{strategy} }

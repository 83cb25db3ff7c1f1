"""The text of a loop as LLVM's text: `llvm_text` makes the whole, `llvm_function` a function, `llvm_operations` the checked operations."""

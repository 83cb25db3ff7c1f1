"""The text of a loop as text of LLVM: `llvm_text` is the whole, `llvm_function` a function, `llvm_operations` the checked operations."""

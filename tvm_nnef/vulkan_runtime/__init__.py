"""A runtime for Vulkan, for a TVM without one: devices, memory, and launches of shaders."""

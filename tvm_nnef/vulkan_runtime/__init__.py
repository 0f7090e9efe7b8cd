"""Vulkan without a TVM that has it: devices, memory, and shaders that are launched."""

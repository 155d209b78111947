"""Fine-tuning: reinforcement learning on many tasks, from pre-trained policies."""

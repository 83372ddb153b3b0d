"""What is proposed before anything is measured, by the static model and by what is shipped beside it."""
